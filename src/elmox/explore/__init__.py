"""The explorer: a page that shows what ELMo's layers know, in the reader's browser.

| file | concept |
|---|---|
| page/ | the page: plain ES modules, no build step; `views/index.js` lists its views |
| files | the page's files, and page.json, which tells it where its model is |
| folder | `export_page`: the page and a model, for any web host; a cached model for this machine |
| words | frequent words with their vectors, for the spelling view |
| web_server | the folder on 127.0.0.1 |
"""
