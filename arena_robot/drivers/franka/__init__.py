"""A Franka that this machine commands itself, through a control process of its own."""
