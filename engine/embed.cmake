# Files of the tree as bytes of the program; CMakeLists.txt says which.
#   cmake -DIN=FILE -DOUT=FILE.c -DSYMBOL=NAME -P embed.cmake: `const char NAME[]`.
#   cmake -DROOT=DIR -DFILES=a:b/c -DOUT=FILE.c -DSYMBOL=NAME -P embed.cmake: a table of them,
#     `const struct embedded_file NAME[]` (base/embedded.h), and `const char NAME_folders[]`: their
#     top folders, as the choices of an option.
function(bytes_of file symbol out)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
  set(${out} "const char ${symbol}[] = {\n${bytes}0};\n" PARENT_SCOPE)
endfunction()

if(IN)
  bytes_of(${IN} ${SYMBOL} text)
else()
  set(at 0)
  set(text "#include \"base/embedded.h\"\n")
  string(REPLACE ":" ";" files "${FILES}")
  foreach(file IN LISTS files)
    math(EXPR at "${at} + 1")
    bytes_of(${ROOT}/${file} bytes_${at} bytes)
    string(APPEND text "static ${bytes}")
    string(APPEND rows "\t{ \"${file}\", bytes_${at}, sizeof(bytes_${at}) - 1 },\n")
    if(file MATCHES "^([^/]+)/")
      list(APPEND folders ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES folders)
  list(JOIN folders "|" folders)
  string(APPEND text "const struct embedded_file ${SYMBOL}[] = {\n${rows}\t{ 0 },\n};\n"
                     "const char ${SYMBOL}_folders[] = \"${folders}\";\n")
endif()
file(WRITE ${OUT} "${text}")
