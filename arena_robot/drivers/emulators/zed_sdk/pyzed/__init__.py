"""A stand-in for Stereolabs' package of this name, without the ZED SDK."""
