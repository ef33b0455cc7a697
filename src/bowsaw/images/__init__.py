"""From a folder of classes to grey pictures."""
