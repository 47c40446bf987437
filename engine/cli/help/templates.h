/* cli/help/templates.h — the folder pipelines/ as it was when the program was built: a folder a
 * template, named as `cairn init --template` names it, and schema.json. */
#ifndef CAIRN_CLI_HELP_TEMPLATES_H
#define CAIRN_CLI_HELP_TEMPLATES_H

#include "base/embedded.h"

extern const struct embedded_file init_files[];
extern const char init_files_folders[]; /* "hello|sweep|…" */

#endif
