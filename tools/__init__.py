"""What maintainers run: generators of documentation, checks of the tests themselves."""
