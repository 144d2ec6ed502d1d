"""What reaches the functions of a service, and whether each of it is safe to repeat.

`triggers` reads templates or a description, `inspecting` looks at a handler in a process of its
own, `handlers` starts that process, and `judging` compares the two. Only `inspecting` imports the
service's code.
"""
