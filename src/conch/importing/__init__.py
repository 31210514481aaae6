"""Takes over what other programs of this kind have stored."""
