"""The explorer: a page on this computer in which a problem is turned about until it is understood. `spinodal explore` starts it."""
