"""A suite any policy server passes that is fit to drive a robot; the report says what to fix."""
