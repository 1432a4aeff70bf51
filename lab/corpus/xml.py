"""XML and HTML: lxml, feedparser and ElementTree."""

from __future__ import annotations

import functools
from xml.etree import ElementTree

import feedparser
from lxml import etree, html

from offload.registry import places

STABLE = True
PACKAGES = ("lxml", "feedparser")
FEED = places.PACKAGE / "upstream" / "www" / "feed.xml"  # 120 KB, 100 items
ENTRIES = 20  # parsed by feedparser, which takes 1 ms per entry
TABLE_ROWS = 2_000
EXPORTED = 1_000
STYLESHEET = b"""
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output method="html"/>
  <xsl:template match="/">
    <ul><xsl:for-each select="//item"><xsl:sort select="title"/>
      <li><a href="{link}"><xsl:value-of select="title"/></a></li>
    </xsl:for-each></ul>
  </xsl:template>
</xsl:stylesheet>
"""


def etree_feed() -> str:
    """Parse a feed of 120 KB by ElementTree and list its titles."""
    root = ElementTree.fromstring(_feed())  # noqa: S314 - our own feed
    return "\n".join(item.findtext("title", "") for item in root.iter("item"))


def feedparser_entries() -> str:
    """Parse 20 entries of a feed by feedparser, which is pure Python."""
    return "\n".join(entry.title for entry in feedparser.parse(_short_feed()).entries)


def lxml_table() -> str:
    """Parse a page with a table of 2,000 rows, and sum up a column selected by XPath."""
    page = html.fromstring(_page())
    return str(sum(int(cell) for cell in page.xpath("//tr[td]/td[2]/text()")))


def lxml_transform() -> bytes:
    """Transform a feed into HTML by an XSLT stylesheet."""
    transform = etree.XSLT(etree.XML(STYLESHEET))
    return bytes(transform(etree.fromstring(_feed())))


def lxml_export() -> bytes:
    """Build an XML document of 1,000 orders, and write it."""
    root = etree.Element("orders")
    for n in range(EXPORTED):
        order = etree.SubElement(root, "order", id=str(n))
        etree.SubElement(order, "customer").text = f"customer {n % 37}"
        etree.SubElement(order, "cents").text = str(n * 37 % 10_000)
    return etree.tostring(root)


def lxml_sitemap() -> str:
    """Parse a feed of 120 KB, and build a sitemap of its links by lxml."""
    links = etree.fromstring(_feed()).xpath("//item/link/text()")
    root = etree.Element("urlset")
    for link in links:
        etree.SubElement(etree.SubElement(root, "url"), "loc").text = link
    return etree.tostring(root).decode()


@functools.cache
def _feed() -> bytes:
    return FEED.read_bytes()


@functools.cache
def _short_feed() -> bytes:
    root = ElementTree.fromstring(_feed())  # noqa: S314 - our own feed
    channel = root.find("channel")
    assert channel is not None
    for item in channel.findall("item")[ENTRIES:]:
        channel.remove(item)
    return ElementTree.tostring(root)


@functools.cache
def _page() -> bytes:
    rows = (f"<tr><td>row {n}</td><td>{n * 37 % 1009}</td></tr>" for n in range(TABLE_ROWS))
    return f"<html><body><table>{''.join(rows)}</table></body></html>".encode()
