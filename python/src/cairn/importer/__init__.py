"""`cairn import`: pipelines of other tools in our words.

What can be said becomes a pipeline that runs. The rest is a list of notes, each with file, line
and what to do: nothing of the original is lost in silence.
"""
