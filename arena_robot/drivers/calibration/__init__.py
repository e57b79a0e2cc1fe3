"""Where a camera is: ChArUco boards in pictures, and the pose that explains them."""
