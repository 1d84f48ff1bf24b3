package failpoint

// PoisonText is input that kills the process which handles it, in a build for the fault harness. It has no build tag, because
// the program that sends it may be another build.
const PoisonText = "chaos:kill-whoever-handles-this"
