#include "cli/completion/scripts.h"

namespace osb::cli {
namespace {

constexpr std::string_view kBash = R"script(# bash completion of osb
_osb_complete() {
  local line value word
  COMPREPLY=()
  # Where bash cuts words at colons, it replaces only what stands behind the last one.
  word=${COMP_LINE:0:COMP_POINT}
  word=${word##*[[:space:]]}
  if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then word=${word%"${word##*:}"}; else word=""; fi
  while IFS= read -r line; do
    if [[ $line == ":files" ]]; then
      compopt -o default 2>/dev/null
      continue
    fi
    if [[ $line == ":nospace" ]]; then
      compopt -o nospace 2>/dev/null
      continue
    fi
    value=${line%%$'\t'*}
    value=${value#"$word"}
    COMPREPLY+=("$value")
  done < <("${COMP_WORDS[0]}" __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _osb_complete osb opensandbox
)script";

constexpr std::string_view kZsh = R"script(#compdef osb opensandbox
_osb() {
  local -a candidates
  local line value help files=0
  local -a nospace
  for line in "${(@f)$("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -z $line ]] && continue
    if [[ $line == ":files" ]]; then
      files=1
      continue
    fi
    if [[ $line == ":nospace" ]]; then
      nospace=(-S '')
      continue
    fi
    value=${line%%$'\t'*}
    help=""
    [[ $line == *$'\t'* ]] && help=${line#*$'\t'}
    candidates+=("${value//:/\\:}${help:+:$help}")
  done
  if (( ${#candidates} )); then _describe -t osb osb candidates $nospace; fi
  if (( files )); then _files; fi
}
if [[ ${funcstack[1]} == _osb ]]; then
  _osb "$@"
elif (( $+functions[compdef] )); then
  compdef _osb osb opensandbox
fi
)script";

constexpr std::string_view kFish = R"script(# fish completion of osb
function __osb_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    for line in ($before[1] __complete -- $before[2..-1] "$current" 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path "$current"
        else if test "$line" != ":nospace"
            echo $line
        end
    end
end
complete -c osb -f -a '(__osb_complete)'
complete -c opensandbox -f -a '(__osb_complete)'
)script";

}  // namespace

std::string_view completion_script(std::string_view shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  if (shell == "fish") return kFish;
  return {};
}

}  // namespace osb::cli
