/* The program `cairn-steps`: the built-in steps, for `cairn step` and for the engine. */
#include "base/mem.h"
#include "steps/step.h"

int main(int argc, char **argv)
{
	json_set_alloc_funcs(xmalloc, free); /* out of memory is fatal, in one way */
	return step_main(argc - 1, argv + 1);
}
