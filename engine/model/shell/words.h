/* engine/model/shell/words.h — the words of a command, for shell.c: which of them the command that
 * gets them reads as code.
 *
 * A command_state follows one command at a time. Plain data of the caller's; no resources.
 */
#ifndef CAIRN_MODEL_SHELL_WORDS_H
#define CAIRN_MODEL_SHELL_WORDS_H

#include "model/shell/shell.h"

#define WORD_MAX_BYTES 64 /* of a word's beginning; the words that matter are shorter */
#define HERE_MAX       8  /* here-documents that begin on one line */

struct code_program;

struct here_document {
	size_t len;
	bool quoted, tabs;
	char text[SHELL_END_MAX];
};

/* One simple command as far as it was read, and the lists that it is part of. */
struct command_state {
	char word[WORD_MAX_BYTES]; /* the beginning of the word being read, without its quotes */
	size_t len;
	bool in_word, opaque; /* opaque: not all of the word is known */
	bool subscript;       /* an unquoted [ stands in it */
	bool pattern;         /* an unquoted ~ or { */
	bool target;          /* it is the target of a redirection */
	bool named;           /* the command's own name was read: the rest are arguments */
	bool takes_options;   /* after a word like `time`, which may have options before the name */
	bool wraps, may_wrap; /* its name is one of `wrappers`, or unknown */
	const struct code_program *program;
	bool code_next, code_given,
		value_next; /* the next word is code; some was; the next is an option's value */
	int operands;
	bool declares, has_case, conditional; /* `declare` or a similar command; `case`; `[[` */
	bool v_names, name_next; /* -v takes a variable's name, which may hold a subscript; the next
				    word is that name */
	int parens;              /* open subshells and arrays */
	struct here_document here[HERE_MAX];
	size_t n_here;
};

void shell_add_to_word(struct command_state *c, char ch);
/* Ends the word being read, if there is one. Returns why the rest of the script can't be followed,
 * or NULL. */
const char *shell_end_word(struct command_state *c, bool bash);
void shell_end_command(struct command_state *c);
/* Whether the command reads this word as code, or may do so. */
bool shell_word_is_code(struct command_state *c);
/* Whether the word begins with NAME= or NAME+=. Sets the name's length. */
bool shell_assigns(const struct command_state *c, size_t *ret_name);
bool shell_name_char(char c); /* a letter, a digit, _ */

#endif
