"""Pictures of texts: Stable Diffusion (Rombach et al. 2021, arXiv 2112.10752; Podell et al. 2023, arXiv 2307.01952;
Esser et al. 2024, arXiv 2403.03206), FLUX (Black Forest Labs 2024), Z-Image (2025, arXiv 2511.22699), Qwen-Image
(2025, arXiv 2508.02324) and others.

A picture begins as noise in a small space of latents. At each step a network that reads the text, a U-Net or a
transformer, says what of it is noise, a schedule takes some of it away, and at last a decoder makes pixels of the
latents. `load.load_diffusion` reads the folders of diffusers.
"""
