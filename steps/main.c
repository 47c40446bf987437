/* The program `cairn-steps`: the built-in steps, for `cairn step` and for the engine. */
#include "steps/step.h"

int main(int argc, char **argv)
{
	return step_main(argc - 1, argv + 1);
}
