// A check of clang-tidy that finds nothing: it keeps the others out of system headers, whose findings are never shown and
// cost four fifths of the time. tools/tidy loads it. Upstream does the same from LLVM 21 on.
#include "clang-tidy/ClangTidyCheck.h"
#include "clang-tidy/ClangTidyModule.h"
#include "clang-tidy/ClangTidyModuleRegistry.h"
#include "clang/AST/ASTContext.h"
#include "clang/ASTMatchers/ASTMatchFinder.h"

#include <vector>

namespace {

using namespace clang;

class own_scope : public tidy::ClangTidyCheck {
public:
    using ClangTidyCheck::ClangTidyCheck;

    void registerMatchers(ast_matchers::MatchFinder* finder) override {
        finder->addMatcher(ast_matchers::translationUnitDecl().bind("unit"), this);
    }
    // The unit itself is matched first; what follows is walked in this scope.
    void check(const ast_matchers::MatchFinder::MatchResult& found) override {
        std::vector<Decl*> own;
        for (Decl* each : found.Nodes.getNodeAs<TranslationUnitDecl>("unit")->decls()) {
            const SourceLocation at = found.SourceManager->getExpansionLoc(each->getLocation());
            if (at.isValid() && !found.SourceManager->isInSystemHeader(at)) own.push_back(each);
        }
        found.Context->setTraversalScope(own);
    }
};

class own_module : public tidy::ClangTidyModule {
public:
    void addCheckFactories(tidy::ClangTidyCheckFactories& to) override {
        to.registerCheck<own_scope>("pinfold-own-scope");
    }
};

const tidy::ClangTidyModuleRegistry::Add<own_module> known("pinfold", "what tools/tidy needs");

} // namespace
