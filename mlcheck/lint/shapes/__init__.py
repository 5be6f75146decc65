"""The shapes of tensors: their algebra, and what functions, methods and layers make of them."""
