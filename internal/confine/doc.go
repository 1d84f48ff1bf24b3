// Package confine runs tasks on content that may be hostile in child processes of this program, which may die.
//
//	         request: name of the task, bytes         ┌──────────────┐
//	Do ──────────────────── pipe ────────────────────▶│ child: Serve │  no environment, no files, no sockets,
//	   ◀─────────────────── pipe ─────────────────────│   Task.Run   │  so much memory, so much time
//	         answer: bytes                            └──────────────┘
//
// A child is this program again, started under another name: main calls Serve before anything else. It answers one request at a
// time, and many in its life. A child that dies, takes too much memory or too much time costs its own request, which fails with
// a *Failure that names the cause; another child takes its place.
//
// What limits a child, and where:
//
//	memory    RLIMIT_DATA on Linux: the kernel refuses what goes beyond, and the Go runtime ends the process. It counts what
//	          is mapped for writing; RLIMIT_AS would count the 1.2 GB of addresses that every Go program reserves. Not in
//	          programs that map far more than they use, such as those of the race detector. Everywhere: the child
//	          looks at its own memory every 20 ms and ends itself.
//	CPU       everywhere: the same look.
//	time      everywhere: its parent kills it.
//	files     RLIMIT_NOFILE = 0: nothing can be opened beside the three pipes it has. On Linux 5.13 and newer Landlock as
//	          well, which also covers what needs no descriptor, such as removing a file.
//	network   RLIMIT_NOFILE = 0: there is no socket without a descriptor. Landlock covers TCP as well.
//	its end   Linux: the kernel kills it with its parent. Elsewhere it notices within 20 ms of work, or at its next read.
//
// A child keeps its user, and may signal that user's processes on kernels before 6.12 and on other systems. No
// system call is filtered. The limits bound Go code, which cannot be made to run other code; they are no sandbox for
// machine code.
package confine
