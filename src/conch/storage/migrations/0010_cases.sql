-- Names that differ only in case look alike, too. `steps.py` fills the table.

DELETE FROM name_skeletons;
