"""Parts of speech, named entities, chunks: a biLSTM with a CRF."""
