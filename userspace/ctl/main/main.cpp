#include "ctl/ctl.hpp"

int main(int argc, char* argv[]) {
    return pinfold::ctl::main_of({argv + 1, argv + argc});
}
