"""Stable Diffusion (Rombach et al. 2021, arXiv 2112.10752; Podell et al. 2023, arXiv 2307.01952): pictures of texts.

A picture begins as noise in a small space of latents. At each step a U-Net, which reads the text, says what of it is
noise, a schedule takes some of it away, and at last a decoder makes pixels of the latents. `load.load_diffusion` reads
the folders of diffusers.
"""
