"""USB cameras through V4L2, and the ZED among them without its SDK."""
