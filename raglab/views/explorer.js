// explorer
