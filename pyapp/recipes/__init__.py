"""The training of the embedded models: `story` writes stories, `speech` transcribes speech, `reader` reads
pictures; `finetune` trains any language model further.

The page's wheel leaves this package out.
"""
