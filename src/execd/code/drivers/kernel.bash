# The Bash kernel of execd: an interactive bash, because only that goes back to its input when it is interrupted and
# keeps its state. It reads its requests from standard input, which is the socket (descriptor 3); the code is in the file
# on descriptor 4. The code itself gets neither.
PS1= PS2= PS0= PROMPT_COMMAND=
set +o history +o monitor +o histexpand
history -c
unset HISTFILE
__opensandbox() {
  builtin local LC_ALL=C frame="{\"type\":\"$1\",\"run\":$2,\"status\":${3:-0}}"
  # In one piece: bash writes at each newline and between conversions it may be interrupted, which would cut the frame.
  builtin printf %s "${#frame} $frame" >&3
}
# The directory and variables of one run: given as DIRECTORY NAME=VALUE..., and taken back after it.
__opensandbox_enter() {
  builtin local each name
  __opensandbox_back=$PWD __opensandbox_saved=() __opensandbox_unset=()
  for each in "${@:2}"; do
    name=${each%%=*}
    if [[ -v $name ]]; then __opensandbox_saved+=("$(builtin declare -p "$name")"); else __opensandbox_unset+=("$name"); fi
    builtin export "$each"
  done
  [[ -z $1 ]] || builtin cd -- "$1"
}
__opensandbox_leave() {
  [[ -v __opensandbox_back ]] || return 0
  builtin local each
  for each in "${__opensandbox_unset[@]}"; do builtin unset -v "$each"; done
  for each in "${__opensandbox_saved[@]}"; do builtin eval "declare -g ${each#declare }"; done
  builtin cd -- "$__opensandbox_back"
  builtin unset -v __opensandbox_back __opensandbox_saved __opensandbox_unset
}
__opensandbox ready 0
