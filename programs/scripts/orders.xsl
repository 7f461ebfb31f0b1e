<?xml version="1.0"?>
<!-- Turns orders.xml into a page: an account per customer, sums through keys, words of remarks taken apart by recursion. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output method="html" encoding="US-ASCII" indent="no"/>
  <xsl:key name="article" match="article" use="@id"/>
  <xsl:key name="orders-of" match="order" use="@customer"/>
  <xsl:key name="lines-of" match="line" use="@article"/>

  <xsl:template match="/shop">
    <html>
      <body>
        <h1>Accounts</h1>
        <xsl:apply-templates select="customers/customer">
          <xsl:sort select="name"/>
          <xsl:sort select="@id"/>
        </xsl:apply-templates>
        <h1>Articles</h1>
        <table>
          <xsl:apply-templates select="articles/article" mode="sold">
            <xsl:sort select="sum(key('lines-of', @id)/@count)" data-type="number" order="descending"/>
            <xsl:sort select="@id"/>
          </xsl:apply-templates>
        </table>
      </body>
    </html>
  </xsl:template>

  <xsl:template match="customer">
    <h2><xsl:value-of select="name"/>, <xsl:value-of select="town"/></h2>
    <xsl:for-each select="key('orders-of', @id)">
      <xsl:sort select="@date"/>
      <xsl:sort select="@id"/>
      <p>
        <b><xsl:value-of select="concat(@date, ' ', @id)"/></b>
        <xsl:apply-templates select="line"/>
        <xsl:variable name="cents">
          <xsl:call-template name="total"><xsl:with-param name="lines" select="line"/></xsl:call-template>
        </xsl:variable>
        <i><xsl:value-of select="floor($cents div 100)"/>.<xsl:value-of select="format-number($cents mod 100, '00')"/></i>
        <xsl:call-template name="split"><xsl:with-param name="text" select="normalize-space(remark)"/></xsl:call-template>
      </p>
    </xsl:for-each>
  </xsl:template>

  <xsl:template match="line">
    <xsl:variable name="article" select="key('article', @article)"/>
    <span class="{$article/@group}"><xsl:value-of select="concat(@count, ' x ', $article/name)"/></span>
  </xsl:template>

  <xsl:template match="article" mode="sold">
    <tr id="{@id}">
      <td><xsl:value-of select="translate(name, 'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ')"/></td>
      <td><xsl:value-of select="count(key('lines-of', @id))"/></td>
      <td><xsl:value-of select="substring(description, 1, 40)"/></td>
    </tr>
  </xsl:template>

  <xsl:template name="total">
    <xsl:param name="lines"/>
    <xsl:choose>
      <xsl:when test="$lines">
        <xsl:variable name="rest">
          <xsl:call-template name="total"><xsl:with-param name="lines" select="$lines[position() &gt; 1]"/></xsl:call-template>
        </xsl:variable>
        <xsl:value-of select="$lines[1]/@count * key('article', $lines[1]/@article)/@cents + $rest"/>
      </xsl:when>
      <xsl:otherwise>0</xsl:otherwise>
    </xsl:choose>
  </xsl:template>

  <xsl:template name="split">
    <xsl:param name="text"/>
    <xsl:if test="$text">
      <u><xsl:value-of select="substring-before(concat($text, ' '), ' ')"/></u>
      <xsl:call-template name="split"><xsl:with-param name="text" select="substring-after($text, ' ')"/></xsl:call-template>
    </xsl:if>
  </xsl:template>
</xsl:stylesheet>
