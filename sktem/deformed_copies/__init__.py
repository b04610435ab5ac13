"""Classification of images by a kernel machine on deformed copies of them."""
