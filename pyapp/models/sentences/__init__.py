"""What models that embed and rank texts have around their encoder: pooling and layers over vectors (embedding.py),
vectors of tokens that are compared one by one (late_interaction.py), tables of words' vectors (word_vectors.py), and
language models whose logits are scores (logit_ranking.py).
"""
