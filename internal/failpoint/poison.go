package failpoint

// PoisonText is what input holds that kills the process which handles it, in a build for the fault harness. It is here
// without the tag, because who makes the poison need not be such a build.
const PoisonText = "chaos:kill-whoever-handles-this"
