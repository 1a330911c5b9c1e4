"""A cluster as network namespaces on one Linux machine, with the kernel's own TCP between them."""
