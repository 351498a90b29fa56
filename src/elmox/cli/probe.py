"""`elmox probe`: what each layer of a model encodes."""

from elmox.cli.probe_pos import command as pos
from elmox.cli.probe_wsd import command as wsd
from elmox.cli.verb import verb_group

app = verb_group("Measure what each layer encodes, with simple probes.", {"pos": pos, "wsd": wsd})
