"""What every node is made of: spin, calls, quality of service, parameters, time, the graph."""
