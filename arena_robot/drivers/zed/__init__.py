"""ZED cameras through Stereolabs' SDK."""
