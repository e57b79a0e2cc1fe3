"""audit_node: audits of finished sessions in the background, and progress while a rollout runs."""
