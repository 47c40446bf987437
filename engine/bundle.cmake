# The web interface as bytes of the program; cairn_bundle() in CMakeLists.txt calls it.
#   cmake -DWEB=SOURCES -DFILES=a:b/c -DDIR=FOLDER -DOUT=FILE.c [-DDOCS=TREE] [-DWHY=TEXT] -P bundle.cmake
#
# Copies the files of web/ into FOLDER, and runs `npm run build` there, so that the source tree stays
# as it is. Packages are installed once per package-lock.json, for all build folders, in
# ~/.cache/cairn-web: a second build needs no network. FILE.c has each file of dist/, compressed with
# gzip, and a table of them (serve/page/bundle.h). With DOCS, the repository, the documents are among
# them, as web/tools/docs.mjs writes them.
#
# With WHY, or when the packages can't be had, the table is empty and says why. Then the next build
# tries again. An error in web/ itself fails the build.
set(table "")
set(objects "")

if(NOT WHY)
  file(REMOVE_RECURSE ${DIR})
  string(REPLACE ":" ";" files "${FILES}")
  foreach(file IN LISTS files)
    get_filename_component(folder ${DIR}/${file} DIRECTORY)
    file(COPY ${WEB}/${file} DESTINATION ${folder})
  endforeach()
  if(DEFINED ENV{XDG_CACHE_HOME})
    set(cache $ENV{XDG_CACHE_HOME}/cairn-web)
  elseif(DEFINED ENV{HOME})
    set(cache $ENV{HOME}/.cache/cairn-web)
  else()
    set(cache ${DIR}/../cairn-web)
  endif()
  execute_process(COMMAND node --version OUTPUT_VARIABLE node)
  file(READ ${WEB}/package.json package)
  file(READ ${WEB}/package-lock.json lock)
  string(SHA256 hash "${package}${lock}${node}")
  string(SUBSTRING ${hash} 0 16 hash)
  set(modules ${cache}/${hash})
  if(EXISTS ${modules})
    file(TOUCH_NOCREATE ${modules})
  else()
    string(RANDOM temporary)
    set(temporary ${cache}/tmp-${temporary})
    file(COPY ${WEB}/package.json ${WEB}/package-lock.json DESTINATION ${temporary})
    file(MAKE_DIRECTORY ${temporary}/node_modules)
    # No scripts: a package of somebody else runs nothing here before we call it.
    execute_process(COMMAND npm ci --prefer-offline --no-audit --no-fund --ignore-scripts
                            --fetch-retries=1 --fetch-timeout=60000
                    WORKING_DIRECTORY ${temporary} RESULT_VARIABLE failed OUTPUT_VARIABLE log
                    ERROR_VARIABLE log)
    file(MAKE_DIRECTORY ${temporary}/node_modules)
    if(failed)
      message("${log}")
      set(WHY "its packages could not be installed (npm ci). Once there is a network, build again.")
      message("The web interface is not built: ${WHY}")
      file(REMOVE_RECURSE ${temporary})
    else()
      # Another build may have been faster: then its packages stay.
      file(RENAME ${temporary} ${modules} RESULT lost)
      if(lost)
        file(REMOVE_RECURSE ${temporary})
      endif()
      # Packages of old locks.
      execute_process(COMMAND find ${cache} -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -rf {} +)
    endif()
    set(retry ${failed})
  endif()
endif()

if(NOT WHY)
  file(CREATE_LINK ${modules}/node_modules ${DIR}/node_modules SYMBOLIC)
  execute_process(COMMAND npm run --silent build WORKING_DIRECTORY ${DIR} RESULT_VARIABLE failed
                  OUTPUT_VARIABLE log ERROR_VARIABLE log)
  if(failed OR NOT EXISTS ${DIR}/dist/index.html)
    message(FATAL_ERROR "npm run build failed in web/; -DCAIRN_WEB=OFF builds without it:\n${log}")
  endif()
  if(DOCS)
    execute_process(COMMAND node tools/docs.mjs ${DOCS} dist WORKING_DIRECTORY ${DIR} RESULT_VARIABLE failed
                    OUTPUT_VARIABLE log ERROR_VARIABLE log)
    if(failed)
      message(FATAL_ERROR "web/tools/docs.mjs failed:\n${log}")
    endif()
  endif()
  file(GLOB_RECURSE built RELATIVE ${DIR}/dist ${DIR}/dist/*)
  list(SORT built)
  set(at 0)
  foreach(file IN LISTS built)
    math(EXPR at "${at} + 1")
    file(SHA256 ${DIR}/dist/${file} hash)
    string(SUBSTRING ${hash} 0 32 hash)
    file(SIZE ${DIR}/dist/${file} size)
    set(gz ${DIR}/gz/${at})
    file(MAKE_DIRECTORY ${DIR}/gz)
    execute_process(COMMAND gzip -9 -n -c ${DIR}/dist/${file} OUTPUT_FILE ${gz} RESULT_VARIABLE failed)
    if(failed)
      message(FATAL_ERROR "gzip of ${file} failed")
    endif()
    string(APPEND objects "__asm__(\".section .rodata\\nbundle_${at}:\\n.incbin \\\"${gz}\\\"\\nbundle_${at}_end:\\n.byte 0\\n.previous\\n\");\n"
                          "extern const char bundle_${at}[], bundle_${at}_end[];\n")
    string(APPEND table "\t{ \"/${file}\", \"\\\"${hash}\\\"\", bundle_${at}, bundle_${at}_end, ${size} },\n")
  endforeach()
endif()

file(WRITE ${OUT} "#include \"serve/page/bundle.h\"\n${objects}"
                  "const struct bundle_file bundle_files[] = {\n${table}\t{ 0 },\n};\n"
                  "const char bundle_why[] = \"${WHY}\";\n")
if(retry)
  execute_process(COMMAND touch -d 2000-01-01 ${OUT})
endif()
