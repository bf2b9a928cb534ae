"""Line searches: transformations that choose the learning rate by evaluating the objective."""
