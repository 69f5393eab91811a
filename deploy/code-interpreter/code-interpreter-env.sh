# Chooses one of the installed versions of a language. For bash, to be sourced:
#
#   source /opt/code-interpreter/code-interpreter-env.sh python|java|node|go [VERSION]
#
# The newest installed version that begins with VERSION comes first in PATH; JAVA_HOME and GOROOT follow. Without VERSION it
# is DEFAULT_PY_VERSION, DEFAULT_JAVA_VERSION, DEFAULT_NODE_VERSION or DEFAULT_GO_VERSION, and without these the newest. The
# choice is added to the file of EXECD_ENVS, so that commands and code see it. A version that is not installed changes
# nothing.

__code_interpreter_choose() {
  local opt=${CODE_INTERPRETER_OPT:-/opt} jvm=${CODE_INTERPRETER_JVM:-/usr/lib/jvm} front default installed chosen line
  case $1 in
    python) front=$opt/python/versions/cpython- default=${DEFAULT_PY_VERSION:-} ;;
    java) front=$jvm/java- default=${DEFAULT_JAVA_VERSION:-} ;;
    node) front=$opt/node/v default=${DEFAULT_NODE_VERSION:-} ;;
    go) front=$opt/go/ default=${DEFAULT_GO_VERSION:-} ;;
    *)
      echo "code-interpreter: '$1' is not one of python, java, node, go" >&2
      return 0
      ;;
  esac
  local wanted=${2:-$default}
  wanted=${wanted#v}
  # A whole part of the version counts first: 3.1 means 3.1, and 3.14 only where no 3.1 is installed.
  installed=$(printf '%s\n' "$front"*/ | sort -V)
  chosen=$(grep -E "^$(sed 's/[][\.*^$+?(){}|]/\\&/g' <<<"$front$wanted")([.-].*)?/$" <<<"$installed" | tail -n 1)
  [[ -n $chosen ]] || chosen=$(grep -F -- "$front$wanted" <<<"$installed" | tail -n 1)
  chosen=${chosen%/}
  if [[ -z $chosen || ! -d $chosen/bin ]]; then
    echo "code-interpreter: $1 $wanted is not installed; there is:" $(sed "s|^$front||; s|/$||" <<<"$installed" | grep -v '\*') >&2
    return 0
  fi
  export PATH=$chosen/bin:$PATH
  line="PATH=$PATH"$'\n'
  case $1 in
    java) export JAVA_HOME=$chosen && line+="JAVA_HOME=$chosen"$'\n' ;;
    go) export GOROOT=$chosen && line+="GOROOT=$chosen"$'\n' ;;
  esac
  [[ -z ${EXECD_ENVS:-} ]] || printf '%s' "$line" >>"$EXECD_ENVS"
}

__code_interpreter_choose "$@"
