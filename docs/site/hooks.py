"""What MkDocs does with links that leave the documents: the text stays, the link goes. And anchors are GitHub's, as the pages' links have them."""

import os
import re


def slug(text, _separator="-"):
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def on_config(config):
    config.mdx_configs["toc"] = {"slugify": slug, "permalink": True}
    return config


def on_page_markdown(markdown, page, config, files):
    here = os.path.dirname(page.file.src_uri)

    def keep(match):
        path = match.group(2).partition("#")[0]
        if not path or ":" in path or files.get_file_from_path(os.path.normpath(os.path.join(here, path))):
            return match.group(0)
        return match.group(1)

    return re.sub(r"(?<!!)\[((?:[^][`]|`[^`]*`)*)\]\(([^)\s]+)\)", keep, markdown)
