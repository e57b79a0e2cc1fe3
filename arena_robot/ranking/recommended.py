"""The recommended ranking method; this module imports nothing, so that a command line is quick."""

# The method of the site, the report, the ranking node, the log and `arena rank` where nobody
# chooses one; docs/ranking.md says why.
RECOMMENDED = 'bt_shrunk'
