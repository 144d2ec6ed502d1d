"""What a flow asks of the world, who carries that out, and when it is asked again."""
