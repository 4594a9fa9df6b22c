"""The files of a new project, as `watersmeet init` writes them: NAME stands for its name."""
