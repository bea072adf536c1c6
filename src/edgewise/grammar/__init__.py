"""From a schema to what may be written: shapes, grammars, and the check afterwards."""
