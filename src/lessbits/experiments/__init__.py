"""The paper's evidence as code."""
