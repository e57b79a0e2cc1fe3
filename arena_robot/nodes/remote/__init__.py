"""Parts, recorder, scene and desk of a station, reached over its topics and services."""
