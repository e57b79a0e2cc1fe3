"""Where blind pairs come from: the interface, and arenas at the station itself."""
