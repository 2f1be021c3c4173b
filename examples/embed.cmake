# embed.cmake - a text file as a C string: cmake -DINPUT=.. -DOUTPUT=.. -DNAME=.. -P embed.cmake
file(READ ${INPUT} text)
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\"\n\"" text "${text}")
file(WRITE ${OUTPUT} "/* Generated from a text file; do not edit. */\nstatic const char ${NAME}[] =\n\"${text}\";\n")
