/* steps/all.h — all built-in steps as one program: `cairn-steps`, and a part of the static cairn.
 */
#ifndef CAIRN_STEPS_ALL_H
#define CAIRN_STEPS_ALL_H

#include <stdbool.h>

/* argv[1] names the step, `normalise`, `mpi-agent` or `torch-rank`. Returns the exit code. */
int steps_main(int argc, char **argv);
/* Whether this command line is one that the engine writes for the program of built-in steps: its
 * name is cairn-steps, or it's a call that no person writes. For the static program, which has
 * only one file to be called by. */
bool steps_are_called(int argc, char **argv);

#endif
