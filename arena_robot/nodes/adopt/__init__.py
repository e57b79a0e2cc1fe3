"""A station file from a running ROS graph: what is there, what is proposed, what is missing."""
