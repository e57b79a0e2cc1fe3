"""File formats that several rooms use: one module, one reader and one writer per format."""
