"""Makes the helper modules beside this file (zoo, oracle) importable from every test folder."""
